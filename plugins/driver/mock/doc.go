// Package mock is a driver whose tasks are timers: they start, fail, print, exit and ignore signals as their config
// defines, without any process. Commands inside them are played as well. It serves tests of everything above drivers,
// and trials of job files.
//
// Tasks live in the memory of the driver instance. Recover takes up a task that would still run according to its
// handle, and returns not found for one that has ended meanwhile, as after a restart of the host.
package mock
