#!/bin/dash
exec /verbs_capture
