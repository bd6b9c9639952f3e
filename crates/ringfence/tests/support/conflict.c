/*
 * Programs whose conflict is known, since they make it themselves.
 *
 * These print a line per unit of work:
 *
 * conflict victim FILE       a unit takes 1 ms, and 20 ms while somebody beats
 * conflict aggressor FILE    beats, which is to touch the file, unless GENTLE=yes is in its environment
 * conflict clock             as many lines as the clock says, and makes up for what it missed
 *
 * These two belong together; the crowd works for its leader, on whatever CPU it may, while that one is not stopped
 * (`prove` pins what it starts itself, and stops it for the windows in which the victim is alone):
 *
 * conflict leader FILE       puts its process into the file, and uses a part of its CPU: where processors are
 *                            emulated, all of it would take something away from the others
 * conflict crowd FILE        six processes, whatever the masks of resctrl say, so that no lever helps
 * conflict crowd FILE MASK   only while MASK is in the default group's schemata: where masks have no effect, a
 *                            stand-in for an aggressor that a mask does hold off
 */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_REALTIME, &t);
    return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

static double beat(const char *path)
{
    struct stat file;
    return stat(path, &file) < 0 ? 0 : (double)file.st_mtim.tv_sec + (double)file.st_mtim.tv_nsec / 1e9;
}

static const char *text(const char *path)
{
    static char into[4096];
    FILE *file = fopen(path, "r");
    into[file ? fread(into, 1, sizeof into - 1, file) : 0] = 0;
    if (file)
        fclose(file);
    return into;
}

static int runs(const char *path)
{
    char stat[64];
    snprintf(stat, sizeof stat, "/proc/%d/stat", atoi(text(path)));
    const char *name = strrchr(text(stat), ')');
    return name && name[1] && !strchr("TtZX", name[2]);
}

static void work(double seconds)
{
    for (double until = now() + seconds; now() < until;)
        ;
}

static void leader(const char *path)
{
    FILE *file = fopen(path, "w");
    if (!file)
        exit(1);
    fprintf(file, "%d\n", getpid());
    fclose(file);
    for (;; usleep(9000))
        work(0.001);
}

static void crowd(const char *path, const char *mask)
{
    pid_t all[6];
    for (int i = 0; i < 6; i++)
        if ((all[i] = fork()) == 0)
            for (;;)
                ;
    /* One looks for all, and seldom: where processors are emulated, looking is work. */
    for (int works = 1;; usleep(10000)) {
        int wanted = runs(path) && (!mask || strstr(text("/sys/fs/resctrl/schemata"), mask));
        for (int i = 0; i < 6 && wanted != works; i++)
            kill(all[i], wanted ? SIGCONT : SIGSTOP);
        works = wanted;
    }
}

static void unit(void)
{
    puts("");
    fflush(stdout);
}

int main(int argc, char **argv)
{
    const char *gentle = getenv("GENTLE");
    int beats = !gentle || strcmp(gentle, "yes");
    if (argc == 3 && !strcmp(argv[1], "victim"))
        for (;; unit())
            usleep(now() - beat(argv[2]) < 0.03 ? 20000 : 1000);
    if (argc == 3 && !strcmp(argv[1], "aggressor")) {
        FILE *file = fopen(argv[2], "a");
        if (!file)
            return 1;
        for (;; unit()) {
            if (beats)
                futimens(fileno(file), NULL);
            usleep(2000);
        }
    }
    if (argc == 2 && !strcmp(argv[1], "clock")) {
        double start = now();
        for (long lines = 0;; usleep(2000))
            for (; (double)lines < (now() - start) * 500; lines++)
                unit();
    }
    if (argc == 3 && !strcmp(argv[1], "leader"))
        leader(argv[2]);
    if ((argc == 3 || argc == 4) && !strcmp(argv[1], "crowd"))
        crowd(argv[2], argc == 4 ? argv[3] : NULL);
    fprintf(stderr, "conflict victim FILE, aggressor FILE, clock, leader FILE, or crowd FILE [MASK]\n");
    return 2;
}
