// Package findings prints the reports of the doctor commands.
package findings
