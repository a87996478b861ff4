// Package logs copies the output of containers from the engine into the log files of their tasks; client/logs has the
// names of these.
//
// The engine gives each piece of output a time. A cursor records up to which piece the log files are written, and where in
// the files that is. It is stored now and then. After a restart of the agent the pieces since the cursor are read again,
// and as many bytes of each stream are left out as the files have grown after the cursor was stored: nothing is lost or
// written twice as long as the engine keeps its log and its clock is not set back.
//
// Tasks can write to the directory of the log files: files are opened without following links, and what is not a regular
// file is replaced.
package logs
