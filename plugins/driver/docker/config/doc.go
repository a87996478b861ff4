// Package config is what job files and the agent's configuration contain about the docker driver: the keys of both
// config blocks, their defaults, and the rules that need nothing but these two. It does no I/O.
package config
