// Package inspect lets operators look into a running agent: its log as it is written, its host, and its profiles.
package inspect
