// Lists all pods from controller-runtime's cache and prints the cost.
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"runtime"
	"runtime/debug"
	"strconv"
	"strings"
	"syscall"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
)

type usage struct {
	Time   float64 `json:"time"`
	Memory float64 `json:"memory"`
}

type measured struct {
	Synced float64 `json:"synced"`
	List   usage   `json:"list"`
}

func main() {
	config := &rest.Config{
		Host:            os.Args[1],
		BearerToken:     os.Args[2],
		TLSClientConfig: rest.TLSClientConfig{Insecure: true},
		QPS:             -1,
	}
	ctrl.SetLogger(logr.Discard())
	ctx := ctrl.SetupSignalHandler()
	informers, err := cache.New(config, cache.Options{})
	check(err)
	_, err = informers.GetInformer(ctx, &corev1.Pod{})
	check(err)
	go func() { check(informers.Start(ctx)) }()
	if !informers.WaitForCacheSync(ctx) {
		check(fmt.Errorf("not synced"))
	}
	debug.FreeOSMemory()
	result := measured{Synced: resident()}
	for round := range 3 {
		before := processor()
		memory, count := list(ctx, informers)
		// Garbage collection is part of the cost.
		runtime.GC()
		time := processor() - before
		if count != 50_000 {
			check(fmt.Errorf("%d pods", count))
		}
		if round == 0 || time < result.List.Time {
			result.List.Time = time
		}
		result.List.Memory = max(result.List.Memory, memory)
	}
	check(json.NewEncoder(os.Stdout).Encode(result))
}

func list(ctx context.Context, informers cache.Cache) (float64, int) {
	var pods corev1.PodList
	check(informers.List(ctx, &pods))
	memory := resident()
	return memory, len(pods.Items)
}

// processor returns the CPU time of the process in milliseconds.
func processor() float64 {
	var usage syscall.Rusage
	check(syscall.Getrusage(syscall.RUSAGE_SELF, &usage))
	ms := func(t syscall.Timeval) float64 { return float64(t.Sec)*1e3 + float64(t.Usec)/1e3 }
	return ms(usage.Utime) + ms(usage.Stime)
}

// resident returns the resident memory of the process in bytes.
func resident() float64 {
	text, err := os.ReadFile("/proc/self/status")
	check(err)
	_, rest, _ := strings.Cut(string(text), "VmRSS:")
	kilobytes, err := strconv.Atoi(strings.Fields(rest)[0])
	check(err)
	return float64(kilobytes) * 1024
}

func check(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
