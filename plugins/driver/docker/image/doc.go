// Package image gets the images of containers to the engine, and removes them some time after their last use.
//
//	             Ensure: load, pull or find           Release of the last task
//	(unknown) ───────────────────────────────► used ───────────────────────────► unused
//	    ▲                                        ▲  Use, Ensure                      │
//	    │                                        └───────────────────────────────────┤
//	    └──────────────────────────────────────────────────────── after the delay ───┘
//
// Tasks that want the same image with the same account at the same time share one pull, which continues until the last of
// them has left. A task that wants an image while it is removed waits, and pulls it again. Which image a task uses is not
// stored: after a restart of the agent the driver calls Use for each container that it takes up. Images that are not used
// then are kept.
package image
