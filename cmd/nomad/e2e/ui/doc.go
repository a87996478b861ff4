// Package ui tests the web user interface in a real browser.
package ui
