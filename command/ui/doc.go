// Package ui has the command that opens the web user interface in a browser.
package ui
