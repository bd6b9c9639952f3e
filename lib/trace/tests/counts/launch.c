// launch OUTPUT [NAME=VALUE...] PROGRAM [ARGUMENT...]: executes a program with no other environment, and its output in
// a file, so that every tracer is given the same.
#include <fcntl.h>
#include <string.h>
#include <unistd.h>
int main(int count, char **given) {
  char *variables[64];
  int at = 2, known = 0, output = open(given[1], O_WRONLY | O_CREAT | O_TRUNC, 0600);
  while (at < count && strchr(given[at], '=') && known < 63) variables[known++] = given[at++];
  variables[known] = 0;
  if (at >= count || output < 0 || dup2(output, 1) < 0 || close(output)) return 97;
  execve(given[at], given + at, variables);
  return 98;
}
