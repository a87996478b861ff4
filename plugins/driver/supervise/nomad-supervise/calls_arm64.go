package main

// Numbers of system calls that the syscall package names on other architectures only.
const (
	sysSetns  = 268
	sysSyncfs = 267
	sysStatx  = 291

	sysMemfdCreate = 279

	sysTimerfdCreate  = 85
	sysTimerfdSettime = 86
)
