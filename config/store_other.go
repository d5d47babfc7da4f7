//go:build !unix && !windows

package config

import (
	"io/fs"
	"os"
)

const plainly = 0

func isFull(error) bool { return false }

func isReadOnly(error) bool { return false }

func isBadPath(error) bool { return false }

func keepOwner(*os.File, fs.FileInfo) error { return nil }

func trust(string, fs.FileInfo) error { return nil }

func isUnsyncable(error) bool { return false }
