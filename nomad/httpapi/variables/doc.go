// Package variables has the HTTP endpoints of variables.
package variables
