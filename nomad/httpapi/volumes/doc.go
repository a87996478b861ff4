// Package volumes has the HTTP endpoints of volumes, of their snapshots and of CSI plugins. Nothing secret leaves: volumes
// go through Redacted of api/mask.
package volumes
