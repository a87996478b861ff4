// Package examples holds job and volume files to copy. They are documentation, what "job init" and
// "volume init" write, and input of the parsers' tests at once, so they cannot grow old.
package examples
