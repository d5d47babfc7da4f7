package cli

import (
	"fmt"
	"log/slog"
	"net"
	"os"
)

// The states that a service manager is told, in systemd's words.
const (
	managerReady    = "READY=1"
	managerStopping = "STOPPING=1"
)

// tellManager tells the service manager that started this process how it stands,
// where it asks to be told, as systemd does with Type=notify. That it cannot be told
// is no reason not to serve.
func tellManager(state string, log *slog.Logger) {
	path := os.Getenv("NOTIFY_SOCKET")
	if path == "" {
		return
	}
	if err := sendTo(path, state); err != nil && log != nil {
		log.Warn("the service manager was not told", "state", state, "error", err)
	}
}

func sendTo(path, text string) error {
	c, err := net.Dial("unixgram", path) // @ at its beginning is a zero byte
	if err != nil {
		return err
	}
	defer c.Close()
	if _, err := c.Write([]byte(text)); err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	return nil
}
