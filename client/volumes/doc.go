// Package volumes is the node's side of CSI volumes: it claims, stages and publishes what allocations ask for,
// and takes it down again. Package journal records what is mounted, package decide
// determines the steps of a mount, package csiplugins supervises the plugins, package mounthealth watches the mounts; all are
// led from here.
//
// # The machine
//
// For each (volume, node) there is one staging path, for each (volume, allocation, use) one target path. Both are
// short and hashed. A use is one way in which the allocation uses the volume: read-only, with other mount flags. The
// journal has one row per (volume, allocation, use):
//
//	          Up            granted              published, verified by mountinfo
//	(no row) ────► claiming ───────► mounting ───────────────────────────────────► mounted
//	    ▲              │                └────────────────────┬─────────────────────────┘
//	    │              │ Down: nothing to undo               ▼ Down
//	    └─────────── released ◄─────────────────────────── leaving
//	  servers notified           NodeUnpublish, NodeUnstage if last
//
// and one row per (volume) while something of it is, or may be, staged. A row is written before the call that it
// announces and is changed after the reply; every call may be repeated. The number of users of a staged volume is
// never counted in memory: it is the number of rows, checked against the mount table.
//
// # Invariants
//
//   - One call is in flight per volume.
//   - NodeUnstage is sent only when no row of the volume remains but the leaving one and no target below
//     the plugin's base directory is a mount of it.
//   - A volume is reported to the servers as released only after nothing of it is mounted and the driver has
//     replied, or the node has unmounted it in its stead; until then the row stays, across restarts, and
//     [Service.Run] keeps trying.
//   - An allocation that the node knows is not unmounted before [Service.Down], regardless of the caller.
//   - A mount without a readable record is in use until no allocation can need it.
//   - A path that is, or contains, a mount is never removed; a path that may be a dead mount is never stat'ed.
//   - The end of the agent is not the end of a plugin: nothing is reported unhealthy because of it.
//
// # Use
//
//	s, err := volumes.New(conf)
//	s.Restored(known)                   // once, when the store was read
//	go s.Run(ctx)                       // the only goroutines, in addition to those of callers
//	mounts, err := s.Up(ctx, alloc)     // a step of the allocation, before its tasks
//	err = s.Down(ctx, alloc.ID)         // the same step, after its tasks
//	p, err := s.Plugins().Task(alloc, task, isolated) // for tasks with a csi_plugin block
//
// Who writes what: this package alone writes the journal and registry buckets that its Config names, and
// the directory csi below Config.StateDir.
package volumes
