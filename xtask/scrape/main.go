// Command scrape reads metrics in the text format from standard input, parses them as a Prometheus
// server does, and checks them as `promtool check metrics` does. It prints the number of samples, or
// what is wrong.
package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/prometheus/client_golang/prometheus/testutil/promlint"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/model/textparse"
)

func main() {
	samples, err := check(os.Stdin)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	fmt.Println(samples)
}

func check(input io.Reader) (int, error) {
	text, err := io.ReadAll(input)
	if err != nil {
		return 0, err
	}
	samples, err := parse(text)
	if err != nil {
		return 0, fmt.Errorf("prometheus: %w", err)
	}
	problems, err := promlint.New(bytes.NewReader(text)).Lint()
	if err != nil {
		return 0, fmt.Errorf("promtool: %w", err)
	}
	var all []error
	for _, problem := range problems {
		all = append(all, fmt.Errorf("promtool: %s: %s", problem.Metric, problem.Text))
	}
	return samples, errors.Join(all...)
}

// parse returns the number of samples; a series that occurs twice is an error, as when it is stored.
func parse(text []byte) (int, error) {
	parser, err := textparse.New(text, "text/plain; version=0.0.4", labels.NewSymbolTable(), textparse.ParserOptions{})
	if err != nil {
		return 0, err
	}
	seen := map[string]bool{}
	for {
		entry, err := parser.Next()
		if errors.Is(err, io.EOF) {
			return len(seen), nil
		}
		if err != nil {
			return 0, err
		}
		if entry != textparse.EntrySeries {
			continue
		}
		var series labels.Labels
		parser.Labels(&series)
		if seen[series.String()] {
			return 0, fmt.Errorf("duplicate sample %s", series)
		}
		seen[series.String()] = true
	}
}
