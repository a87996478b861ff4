// Package bench measures a whole server over HTTP: the real program on a real disk, and a swarm of
// simulated nodes that register, heartbeat, fetch their allocations and report on them over the real RPC.
//
// It holds benchmarks only. NOMAD_BIN names the program; `make bench` builds it, runs these with all
// others and prints the figures beside the bars in bars.tsv (see package table).
package bench
