// Package find resolves what users type into objects: an exact id wins, else a prefix that only
// one id has. Several candidates are an error that lists them; it never picks one.
package find
