// Package logs reads the log files of tasks in pieces, across their rotation.
//
// A driver writes <task>.stdout.<n> and <task>.stderr.<n> into the logs directory of the allocation. Only
// the file with the highest n grows; when it is full the next one is begun and the oldest is removed. The
// numbers never start again, so a place in a log is a number and an offset: an [api.LogCursor].
//
// Read is one bounded step: the caller keeps the cursor between steps, in a loop that may run on another
// host. Nothing is held open in between. Pieces are in order and without overlap; what rotation removed
// before it was read is skipped.
//
// A file that has become shorter was emptied, and is read again from its beginning.
//
// The directory can be written by tasks: the caller opens it safely, and files that are not regular, symbolic links
// among them, are never read.
package logs
