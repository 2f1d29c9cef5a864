import java.io.File;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.hdfs.MiniDFSCluster;

/** A NameNode and a DataNode in this JVM, for tests: prints the port, and ends with its standard input. */
public class MiniDfs {
    public static void main(String[] folder) throws Exception {
        MiniDFSCluster cluster =
            new MiniDFSCluster.Builder(new Configuration(), new File(folder[0])).numDataNodes(1).build();
        cluster.waitActive();
        System.out.println("port " + cluster.getNameNodePort());
        while (System.in.read() >= 0) {
        }
        System.exit(0);
    }
}
