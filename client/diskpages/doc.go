// Package diskpages copies the data of an ephemeral disk between nodes, in pages: [Read] makes them on the node that has the
// data, [Writer] makes the files from them.
//
//	alloc/data and <task>/local ──Read──► page, cursor ──► Writer.Write ──► directory of the agent ──Finish──► on disk
//
// Read keeps nothing between two calls: entries come in the order of their names, and a cursor is the last one that was sent. So
// either agent may be replaced by another process, and what is removed meanwhile is left out.
//
// Neither side trusts the other, nor the tasks that made the files. Read takes every step from a descriptor of the step
// before, follows no links and enters no mounts. Writer makes directories, regular files and symbolic links only, below its own
// directory and without a link on the way; it clears the set-user-ID and set-group-ID bits of files, and keeps to its limits.
// Owners are kept as numbers. Extended attributes are not copied.
package diskpages
