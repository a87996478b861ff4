// Package dirs makes, reads and removes the directories of allocations:
//
//	<root>/<alloc id>/               0755
//	  alloc/{data,logs,tmp}          shared by the tasks; alloc and logs stay the agent's, so that what is named so is meant
//	  <task>/{local,secrets,tmp}     one per task; <task> is the working directory of unisolated tasks
//
// What a task can write to is hostile. Nothing below a directory of tasks is opened, made, changed or removed by its
// path: every step is taken from a descriptor of the step before, and links are not followed.
//
// Removal never crosses a mount: a directory is opened only when it lies on the same mount as its parent, and a mount
// point found on the way is an error that names it. The content of a mount is a user's data.
//
// The secrets of a task are in a tmpfs of their own ([Tree.InMemory]), which is not written to swap where the kernel can
// prevent that. It stays while the allocation may run an attempt, whichever agent does, and is emptied before it is
// detached: mount namespaces of other tasks may hold a copy of the mount.
//
// Reading for users ([Alloc.List], [Alloc.Stat], [Alloc.Read]) cannot leave the allocation's directory, by
// ".." or by links that tasks made, and does not show the secrets of tasks.
package dirs
