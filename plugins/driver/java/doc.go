// Package java runs programs of a Java virtual machine that the node has. The tasks are those of plugins/driver/exec, whose
// isolation, supervision and recovery they have: this package makes the command line and reports the version.
package java
