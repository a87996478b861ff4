package kms

import "io/fs"

// Carry replaces the program that a service installs.
func Carry(s *Service, programs fs.FS) { s.carried = programs }
