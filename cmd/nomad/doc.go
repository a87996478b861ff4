// Command nomad is the one binary: server, client and command line of open-nomad.
package main
