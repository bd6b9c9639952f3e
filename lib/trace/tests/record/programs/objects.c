#include <libpmemobj.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
struct node { PMEMoid next; long value; char text[200]; };
struct root { PMEMoid head; long count; };
int main(int argc, char **argv) {
  PMEMobjpool *p = pmemobj_create(argv[1], "test", PMEMOBJ_MIN_POOL, 0600); if (!p) { perror("create"); puts(pmemobj_errormsg()); return 1; }
  PMEMoid r = pmemobj_root(p, sizeof(struct root)); struct root *root = pmemobj_direct(r);
  int n = argc > 2 ? atoi(argv[2]) : 100;
  for (int i = 0; i < n; i++) {
    TX_BEGIN(p) {
      pmemobj_tx_add_range(r, 0, sizeof *root);
      PMEMoid o = pmemobj_tx_zalloc(sizeof(struct node), 1); struct node *d = pmemobj_direct(o);
      d->next = root->head; d->value = i; memset(d->text, 'a' + i % 26, 199); root->head = o; root->count++;
    } TX_END
  }
  long sum = 0; for (PMEMoid o = root->head; !OID_IS_NULL(o);) { struct node *d = pmemobj_direct(o); sum += d->value; o = d->next; }
  printf("%ld %ld\n", root->count, sum); pmemobj_close(p); return 0;
}
