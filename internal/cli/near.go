package cli

import (
	"fmt"
	"strings"
)

// mostNear is how many words a hint has.
const mostNear = 3

// near picks the words that someone may have meant: a letter or two away, or one
// that begins as the other ends.
func near(word string, list []string) []string {
	var found []string
	for _, other := range list {
		if len(found) < mostNear && alike(strings.ToLower(word), strings.ToLower(other)) {
			found = append(found, other)
		}
	}
	return found
}

func alike(a, b string) bool {
	shorter := min(len(a), len(b))
	return distance(a, b) <= min(1+len(a)/4, shorter) && shorter > 1 ||
		shorter > 2 && (strings.HasPrefix(a, b) || strings.HasPrefix(b, a))
}

// distance is how many letters must be put in, taken out or changed to make b of a.
func distance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		above := row[0]
		row[0] = i + 1
		for j := range len(b) {
			cost := above
			if a[i] != b[j] {
				cost++
			}
			above = row[j+1]
			row[j+1] = min(cost, row[j]+1, above+1)
		}
	}
	return row[len(b)]
}

// meant is the hint for a name that a registry does not know: names that are near,
// else some of those it has, else what to do about there being none.
func meant(word, kind string, list []string, none string) string {
	if found := near(word, list); len(found) > 0 {
		return "did you mean " + strings.Join(found, " or ") + "?"
	}
	if len(list) == 0 {
		return none
	}
	some := strings.Join(list[:min(len(list), 2*mostNear)], ", ")
	if len(list) > 2*mostNear {
		some += ", …"
	}
	return fmt.Sprintf("%s there: %s; %s", kind, some, none)
}
