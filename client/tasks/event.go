package tasks

import (
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/plugins/driver"
)

// eventsMax is how many events a task keeps.
const eventsMax = 10

// Event types that the dictionary does not name.
const (
	eventShutdownDelay = "Waiting for shutdown delay"
	eventSkipDelay     = "Skipping shutdown delay"
	eventRestoreFailed = "Failed Restoring Task"
	eventStuck         = "Not Killable"
	eventSlow          = "Waiting"
	eventDeviceLost    = "Device Lost"
)

func event(kind, display string) *api.TaskEvent {
	return &api.TaskEvent{Type: kind, DisplayMessage: display, Details: map[string]string{}}
}

// message makes an event whose text is its message.
func message(kind, text string) *api.TaskEvent {
	e := event(kind, text)
	e.Message, e.Details["message"] = text, text
	return e
}

func received() *api.TaskEvent { return event(api.EventReceived, "Task received by client") }
func started() *api.TaskEvent  { return event(api.EventStarted, "Task started by client") }
func killed() *api.TaskEvent   { return event(api.EventKilled, "Task successfully killed") }

func terminated(x *driver.Exit) *api.TaskEvent {
	text := fmt.Sprintf("Exit Code: %d", x.Code)
	e := event(api.EventTerminated, "")
	if x.Signal != 0 {
		text += fmt.Sprintf(", Signal: %d", x.Signal)
	}
	if x.OOMKilled {
		text += ", OOM Killed"
	}
	if x.Err != "" {
		text += fmt.Sprintf(", Exit Message: %q", x.Err)
		e.Message, e.Details["exit_message"] = x.Err, x.Err
	}
	e.DisplayMessage, e.ExitCode, e.Signal = text, x.Code, x.Signal
	e.Details["exit_code"], e.Details["signal"] = strconv.Itoa(x.Code), strconv.Itoa(x.Signal)
	e.Details["oom_killed"] = strconv.FormatBool(x.OOMKilled)
	return e
}

func restarting(delay time.Duration, reason string) *api.TaskEvent {
	e := event(api.EventRestarting, fmt.Sprintf("Task restarting in %v", delay))
	e.TaskEventCause = &api.TaskEventCause{StartDelay: int64(delay), RestartReason: reason}
	e.Details["start_delay"], e.Details["restart_reason"] = strconv.FormatInt(int64(delay), 10), reason
	return e
}

func notRestarting(reason string, fails bool) *api.TaskEvent {
	e := event(api.EventNotRestarting, reason)
	e.TaskEventCause, e.FailsTask = &api.TaskEventCause{RestartReason: reason}, fails
	e.Details["restart_reason"], e.Details["fails_task"] = reason, strconv.FormatBool(fails)
	return e
}

func restartSignal(reason string) *api.TaskEvent {
	e := event(api.EventRestartSignal, reason)
	e.TaskEventCause, e.Details["restart_reason"] = &api.TaskEventCause{RestartReason: reason}, reason
	return e
}

// killing returns the events of a task that is asked to end, with the cause when it is not the allocation's own end.
func killing(because stopCause, timeout time.Duration) []*api.TaskEvent {
	e := event(api.EventKilling, fmt.Sprintf("Sent interrupt. Waiting %v before force killing", timeout))
	e.TaskEventCause, e.Details["kill_timeout"] = &api.TaskEventCause{KillTimeout: timeout}, timeout.String()
	if cause := causeEvent(because); cause != nil {
		return []*api.TaskEvent{cause, e}
	}
	return []*api.TaskEvent{e}
}

func causeEvent(because stopCause) *api.TaskEvent {
	switch because.event {
	case api.EventSiblingFailed:
		e := event(api.EventSiblingFailed, fmt.Sprintf("Task's sibling %q failed", because.sibling))
		e.TaskEventCause, e.Details["failed_sibling"] = &api.TaskEventCause{FailedSibling: because.sibling}, because.sibling
		return e
	case api.EventLeaderDead:
		return event(api.EventLeaderDead, "Leader Task in Group dead")
	case api.EventMainDead:
		return event(api.EventMainDead, "Main tasks in the group died")
	}
	return nil
}

func driverFailure(err error) *api.TaskEvent {
	e := event(api.EventDriverFailure, err.Error())
	e.TaskEventCause, e.Details["driver_error"] = &api.TaskEventCause{DriverError: err.Error()}, err.Error()
	return e
}

// failure returns the event of an error of a step.
func failure(err error) *api.TaskEvent {
	var download downloadError
	if !errors.As(err, &download) {
		return setupFailure(err)
	}
	e := event(api.EventArtifactDownloadFailed, err.Error())
	e.TaskEventCause, e.Details["download_error"] = &api.TaskEventCause{DownloadError: err.Error()}, err.Error()
	return e
}

func setupFailure(err error) *api.TaskEvent {
	e := event(api.EventSetupFailure, err.Error())
	e.TaskEventCause, e.FailsTask = &api.TaskEventCause{SetupError: err.Error()}, true
	e.Details["setup_error"], e.Details["fails_task"] = err.Error(), "true"
	return e
}

func signaling(signal, reason string) *api.TaskEvent {
	e := event(api.EventSignaling, fmt.Sprintf("Task being sent signal %v", signal))
	e.TaskEventCause, e.Details["task_signal"] = &api.TaskEventCause{TaskSignal: signal, TaskSignalReason: reason}, signal
	if reason != "" {
		e.Details["task_signal_reason"] = reason
		e.DisplayMessage += ": " + reason
	}
	return e
}
