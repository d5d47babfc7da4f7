// Package access reads access rules for a registry from a file, and reads them
// again when the file changes.
//
// # The file
//
// A rule is one line: a verb, who, which rights, and where.
//
//	# Guests read what is public, and nothing else.
//	allow  label:guest    subscribe          public.*
//	deny   label:guest    all                *
//
//	# Config is written by the release train, and reports about it by all.
//	allow  any            publish            config:status:*
//	allow  label:release  publish            config:*
//	deny   any            publish            config:*
//
//	allow  sha256:Yw3NKWbEM2aRElRIu7JbT_QSpJxzLbLIq8G4WBvXEN0  admin  *
//	allow  any            publish,subscribe  *
//
// The first rule that applies decides, so the more special ones stand first; what
// no rule applies to is denied. In the example the last line opens everything to
// everybody but guests, but for what the lines before it say of config.
//
//	verb    allow or deny
//	who     any; label:NAME, which operators give to keys; or the fingerprint of
//	        a key. Several with commas between.
//	rights  publish, subscribe, admin, relay, or all. Several with commas between.
//	where   topics and patterns, as for a subscription, with space between. "*"
//	        is everything: also direct messages, and the registry itself for
//	        operators' work on tokens, keys and nodes. "$direct" is direct messages
//	        alone. What has space, '"' or '#' in it stands in double quotes, as a
//	        string in Go.
//
// '#' at the beginning of a word makes the rest of the line a comment.
//
// Node ids and the names and tags that nodes tell are no part of rules: anybody
// can take any. Rules do not say who is let in: that is the registry's admission.
//
// # Patterns that are asked for
//
// A subscription to a pattern is whole when rules allow all that it matches, as
// far as can be told from each rule by itself. Otherwise the registry asks for
// each topic, and leaves out what is denied.
package access
