// Package namespaces has the HTTP endpoints of namespaces.
package namespaces
