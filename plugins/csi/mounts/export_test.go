package mounts

// The ways to know the mounts at a path, and Unmount with another way to remove the topmost one.
var (
	UniqueStack = uniqueStack
	TableStack  = tableStack
	UnmountBy   = (*stack).unmount
	PointByWalk = pointByWalk
)
