// Package config shares one configuration with a swarm of agents: versions that
// rise, updates that are whole or not at all, and a way back.
package config
