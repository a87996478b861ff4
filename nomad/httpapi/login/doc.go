// Package login has the HTTP endpoints of auth methods, binding rules and logins.
package login
