// Package rows lays out cluster objects that several commands show: allocations, deployments and
// the reasons why something was not placed.
package rows
