// Package login has the verb "nomad login".
package login
