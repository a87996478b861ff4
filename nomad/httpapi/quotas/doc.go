// Package quotas has the HTTP endpoints of quotas.
package quotas
