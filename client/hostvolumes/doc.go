// Package hostvolumes makes and keeps the dynamic host volumes of a node: directories that plugins create and delete when the
// servers ask for it, or that were there before and are registered.
//
// Plugins are the built-in mkdir (a directory) and quota (a directory with a limit where the file system has quotas, otherwise a file with an ext4 file system), and the
// executables of the node's operator in host_volume_plugin_dir:
//
//	<plugin> fingerprint   prints {"version":"1.2.3"}
//	<plugin> create        prints {"path":"/srv/x","bytes":1000000}; it must succeed again for a volume that exists
//	<plugin> delete        succeeds also for a volume that does not exist
//
// Invariants:
//   - What is offered to jobs is recorded before it is reported, and the directory was seen.
//   - Calls about one volume come one after the other and may be repeated; a volume that was deleted is not created again.
//   - A plugin that hangs, fails or prints nonsense fails its own call only.
//   - A registered directory is never changed or deleted.
//
// A restart restores volumes by calling their plugins again. The package alone writes its bucket.
package hostvolumes
