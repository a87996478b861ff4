package main

// Numbers of system calls that the syscall package does not name.
const (
	sysSetns  = 308
	sysSyncfs = 306
	sysStatx  = 332

	sysMemfdCreate = 319

	sysTimerfdCreate  = 283
	sysTimerfdSettime = 286
)
