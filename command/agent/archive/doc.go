// Package archive changes snapshots of the servers on disk, where no server runs.
package archive
