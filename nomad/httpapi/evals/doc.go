// Package evals has the HTTP endpoints of evaluations.
package evals
