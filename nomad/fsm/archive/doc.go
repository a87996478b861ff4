// Package archive is the file format of `nomad operator snapshot`: a gzip tar with three files in this order, the description,
// the state as [state.Txn.Dump] writes it, and the SHA-256 of both as sha256sum(1) prints them.
package archive
