// Package view lays out what commands print: tables, pairs, times, sizes, JSON and templates.
// It decides nothing and knows no cluster.
package view
