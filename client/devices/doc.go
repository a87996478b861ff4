// Package devices manages the devices of a node: it runs the device plugins, follows what they report, reserves devices for tasks
// and watches them while they are in use.
//
// # Where a device stands
//
// A plugin is away while its process does not run as it should; it is started again, later each time. Its devices are then
// unhealthy on the node, with the reason, so that no new task gets one, and tasks that use them run on: a plugin that is away
// says nothing about its devices.
//
// A device is lost when a plugin that runs reports it unhealthy, or reports without it, or when all plugins run and none has its
// group. Tasks that use it fail when it is still lost after the grace, 10 s.
//
// # Who uses a device
//
// The scheduler gives a device to one task at a time. A task whose allocation is to stop may still run when the next one
// arrives, so a reservation waits until the former user has ended.
package devices
