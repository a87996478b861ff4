// Package quotas is the service of quotas: it stores their limits, which it checks, and reads what their namespaces use.
// It alone writes their table. The scheduler, the plan verifier and the commands on volumes enforce the limits by package
// nomad/scheduler/quota.
package quotas
