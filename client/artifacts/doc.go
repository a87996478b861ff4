// Package artifacts downloads the artifacts of tasks.
//
// A [Fetcher] starts the program nomad-artifact for each artifact, which this package carries; its source is a module of its
// own in the directory nomad-artifact. The program is restricted: it runs as nobody if the agent is root, has few variables,
// can write only below its own directory, and is killed after the time limit or when its context ends. It connects to no
// link-local address, so it cannot read the credentials of the machine that clouds offer there.
//
// The download lies in a scratch directory of the allocation. When the program has ended, the agent checks the result and moves
// it to its destination: regular files, directories and links that stay within the artifact are accepted. Downloads run in
// parallel, and the results are moved in the order of the job, so later artifacts replace files of earlier ones.
//
// A file with a sha256 or sha512 checksum is kept in a cache of the node. The checksum is compared at each use.
package artifacts
