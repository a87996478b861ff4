// Package hostvolumes is the service of dynamic host volumes: directories on nodes that are created, registered and deleted
// while the nodes run. It alone writes the table of host volumes; plan apply writes the claims on sticky ones.
//
// The intent is stored before a node is called, so every call has a row, and may be repeated: a node knows volumes by their
// ids. A creation whose answer was lost leaves a pending row, which becomes ready when the node reports the volume, and which
// can be deleted. A deletion first marks the row, from when on nothing is placed with the volume; then its node deletes the
// directory; then the row goes.
//
// The state of a volume is not stored: it follows from what its node reports, see package hostview. The scheduler reads the
// node alone, whose record holds no volume that has no row.
package hostvolumes
