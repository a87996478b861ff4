// Package allocs has the HTTP endpoints of allocations: what servers know of them, and what their nodes do with their
// tasks, files and logs.
package allocs
