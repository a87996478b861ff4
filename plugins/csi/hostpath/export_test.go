package hostpath

// DataLock is the file that copies of a volume or snapshot lock.
func DataLock(stateDir, id string) string { return (&books{stateDir}).dataLock(id) }
