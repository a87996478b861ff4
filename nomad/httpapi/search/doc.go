// Package search has the HTTP endpoint that finds objects of all kinds by the prefix of their ids.
package search
