#!/bin/dash
# Prints both captures of verbs_capture; runs in the guest.
/verbs_capture writes
echo "message"
/verbs_capture message
