#!/bin/dash
/verbs_capture writes
echo "message"
/verbs_capture message
