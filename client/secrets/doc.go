// Package secrets fetches what the secret blocks of a task name: from variables of the cluster, or with an executable of the
// node's operator, <common_plugin_dir>/secrets/<provider>:
//
//	<provider> fingerprint     prints {"type":"secrets","version":"1.2.3"}
//	<provider> fetch <path>    prints {"result":{"key":"value"},"error":null}
//
// Invariants:
//   - A value is returned to the caller and is in no error, no log and no file.
//   - An executable runs without a shell, for a limited time and with limited output. All of its processes have ended when the
//     call returns: as root it runs in a pid namespace, otherwise in a process group. It ends with the agent.
//   - A job chooses the path and the environment. No variable that loaders, shells and interpreters obey passes.
//   - What it prints is untrusted: output that is not of the form above is an error that does not quote it.
package secrets
