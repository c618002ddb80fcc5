// Command cron prints how the cron library of Kubernetes evaluates a fixed set of schedules: for each
// a time zone, a start time and the next four activations, or the error of the parser.
//
// Its output is committed, so that Go is needed only when the library changes:
//
//	cd xtask/gofacts && go run ./cron > ../../crates/evenkeel-cluster/src/cronjob/schedules.txt
package main

import (
	"bufio"
	"fmt"
	"math/rand"
	"os"
	"strconv"
	"strings"
	"time"
	_ "time/tzdata"

	"k8s.io/kubernetes/pkg/util/parsers"
)

// Zones with half-hour offsets, and with days on which midnight does not exist. Zones that skipped a
// whole day are excluded, because the library loops forever there.
var zones = []string{
	"UTC", "Europe/Berlin", "America/New_York", "America/Sao_Paulo", "Australia/Lord_Howe",
	"Asia/Kolkata", "Asia/Beirut", "Africa/Casablanca", "America/St_Johns",
}

// Days around which clocks change in one of the zones; the rules of these years no longer change.
var days = []string{
	"2017-10-14", "2018-02-17", "2018-11-03", "2021-03-27", "2023-03-11",
	"2023-03-25", "2023-10-28", "2023-11-04", "2024-02-28", "2024-03-30", "2024-04-06",
	"2024-10-05", "2024-10-26", "2024-12-31", "2016-02-29",
}

var invalid = []string{
	"", "bad", "* * * *", "* * * * * *", "60 * * * *", "* 24 * * *", "* * 0 * *", "* * 32 * *", "* * * 0 *",
	"* * * 13 *", "* * * * 7", "5-1 * * * *", "*/0 * * * *", "1-2-3 * * * *", "1/2/3 * * * *",
	"x * * * *", "-1 * * * *", "99999999999999999999 * * * *", "* * * jan-x *", "\"é\" * * * *",
	"@often", "@every", "@every ", "@every 5", "@every 1x", "@every 1..5s", "@every .s", "@every -",
	"@every 9223372036854775808ns", "@every 9999999h", "@every é", "TZ=UTC", "TZ=Mars/Base * * * * *",
	"CRON_TZ=../x * * * * *", "TZ=/x * * * * *", "TZ=UTC * * * *", " @hourly", "*/-1 * * * *",
	"0.5 * * * *", "1- * * * *", "- * * * *", "/ * * * *", "*/ * * * *", "+5x * * * *",
}

var fixed = []string{
	"@yearly", "@annually", "@monthly", "@weekly", "@daily", "@midnight", "@hourly",
	"@every 1h30m", "@every 1.5h", "@every 1.9999s", "@every 0", "@every -5s", "@every 100ms",
	"@every 1h0.5m3us", "@every 2562047h47m16.854775807s", "@every .5h", "@every 1.h",
	"1,,2 * * * *", "0 0 31 2 *", "59 23 31 2 *", "0 0 29 2 *", "*/1 * 13 * 5", "0 0 */1 * 5",
	"0 0 */2 * 5", "0 0 13 * */1", "? ? ? ? ?", "*-5 * * * *", "+5 +1 * * *", "0 12 1 JUL ?",
	"30 2 * * *", "0 0 * * *", "30 0 * * *", "30 1 * * *", "0 3 * * *", "*/30 * * * *",
	"TZ= 0 0 * * *", "TZ=Asia/Tokyo 0 9 * * mon-fri", "CRON_TZ=Europe/Berlin @daily",
	"\t0\t0 * *  1 ",
}

var names = map[int][]string{
	3: {"jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"},
	4: {"sun", "mon", "tue", "wed", "thu", "fri", "sat"},
}

// field returns a random field; most day-of-month and day-of-week fields are wildcards.
func field(random *rand.Rand, at int) string {
	low := []int{0, 0, 1, 1, 0}[at]
	high := []int{59, 23, 31, 12, 6}[at]
	if random.Intn(3) == 0 || at >= 2 && random.Intn(2) == 0 {
		return []string{"*", "*", "?", "*/2", "*/1"}[random.Intn(5)]
	}
	value := func(from, to int) (string, int) {
		number := from + random.Intn(to-from+1)
		if known := names[at]; known != nil && random.Intn(2) == 0 {
			return known[number-low], number
		}
		return strconv.Itoa(number), number
	}
	var parts []string
	for range 1 + random.Intn(2) {
		text, from := value(low, high)
		if random.Intn(2) == 0 {
			end, _ := value(from, high)
			text += "-" + end
		}
		if random.Intn(3) == 0 {
			text += "/" + strconv.Itoa(1+random.Intn(high))
		}
		parts = append(parts, text)
	}
	return strings.Join(parts, ",")
}

func main() {
	out := bufio.NewWriter(os.Stdout)
	defer out.Flush()
	fmt.Fprintln(out, "# Written by xtask/gofacts/cron. Schedule (quoted), zone, time, then the next starts in seconds")
	fmt.Fprintln(out, "# after that time, or the parser's error (quoted).")
	for _, schedule := range invalid {
		_, err := parsers.ParseCronScheduleWithPanicRecovery(schedule)
		if err == nil {
			panic(schedule)
		}
		fmt.Fprintf(out, "%s error %s\n", strconv.Quote(schedule), strconv.Quote(err.Error()))
	}
	random := rand.New(rand.NewSource(1))
	schedules := append([]string{}, fixed...)
	for range 400 {
		var fields []string
		for at := range 5 {
			fields = append(fields, field(random, at))
		}
		schedules = append(schedules, strings.Join(fields, " "))
	}
	for number, schedule := range schedules {
		parsed, err := parsers.ParseCronScheduleWithPanicRecovery(schedule)
		if err != nil {
			panic(err)
		}
		for range 3 {
			zone := zones[random.Intn(len(zones))]
			if number < len(fixed) && random.Intn(2) == 0 {
				zone = zones[number%len(zones)]
			}
			location, err := time.LoadLocation(zone)
			if err != nil {
				panic(err)
			}
			day, err := time.ParseInLocation("2006-01-02", days[random.Intn(len(days))], location)
			if err != nil {
				panic(err)
			}
			after := day.Add(time.Duration(random.Intn(2*24*3600)) * time.Second)
			fmt.Fprintf(out, "%s %s %d", strconv.Quote(schedule), zone, after.Unix())
			at := after
			for range 4 {
				at = parsed.Next(at)
				if at.IsZero() {
					fmt.Fprint(out, " -")
					break
				}
				fmt.Fprintf(out, " %d", at.Unix()-after.Unix())
			}
			fmt.Fprintln(out)
		}
	}
}
